"""Rows: one flat record per image, or per kernel, of a file, for data frames and databases"""

"""Rows as text and as Parquet, for data frames, spreadsheets and databases."""

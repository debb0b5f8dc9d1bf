"""File to model: the containers in a CIR file, text or bytecode, with the label of every byte."""

"""Options, parameter types, messages and progress that the commands share."""

"""What one does with device code: verbs over the model, from views to pieces. No printing, no command line."""

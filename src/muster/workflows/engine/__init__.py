"""The workflow engine: decides what a Workflow does next. Pure: it does no I/O and knows no clock but the World's."""

"""One file per kind of training job. Each defines its schema, validation, environment and outcome."""

"""One file per kind of training job. Reading one should tell all about that kind in a minute."""

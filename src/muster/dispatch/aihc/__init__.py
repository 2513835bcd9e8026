"""Jobs on Baidu AIHC: bce-auth-v1 signatures, a client of OpenAPI v2, and the adapter."""

"""Jobs on Tencent timaker, behind Ti-Gateway: TC3 signatures, parsers, resources, and the adapter."""

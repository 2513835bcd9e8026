"""The records of the platform, a module for each area.

A record is written once, as a dataclass. The database fills it from a row, the API returns it as JSON, and the SDK
reads that JSON into the same class. These modules import only the standard library, because the SDK does, too.

Records have no default values: a field that depends on who asks, such as `may`, is set by the route that returns it.
"""

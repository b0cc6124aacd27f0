"""The command line: one small file a verb, each of which parses, runs, stores and reports."""

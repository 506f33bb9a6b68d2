"""What is read from files and kept in folders: entries of YAML merged from several folders, the packaged rules, whole writes, the cache."""

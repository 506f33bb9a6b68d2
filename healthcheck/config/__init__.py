"""Configuration files: YAML entries merged from folders, packaged rules, atomic writes, the cache."""

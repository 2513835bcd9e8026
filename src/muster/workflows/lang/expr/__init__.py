"""expr-lang, the language of `{{= }}` tags: lexer, parser, type checker, evaluator and builtin functions."""

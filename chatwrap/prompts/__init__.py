"""Prompt templates: messages with variables, tools, transforms and output parsers."""

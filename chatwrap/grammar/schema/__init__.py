"""JSON Schema (2020-12, draft-07) to grammar trees."""

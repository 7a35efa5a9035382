"""The web service: pages for people and REST for programs, over a `Workbench`.

Needs the extra ``leafwise[web]``. Nothing here knows how a project is kept or a model learns:
`app` puts the parts together, `security` guards them all, `errors` turns exceptions into answers,
`api`, `files` and `annif` are what programs call, `pages` what people see, `serving` runs it.
"""

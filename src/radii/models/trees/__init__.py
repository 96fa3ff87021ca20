"""Tree ensembles: their form, how it is read from libraries and files, and the search for the nearest other class.

Certificates and attacks both read this room: the search returns what is proved and what is broken.
"""

"""The house-keeper: the transactional record of everything recovery needs.

This room knows nothing of Spark. ``open_keeper`` gives a ``Keeper``, whose methods are the verbs.
"""

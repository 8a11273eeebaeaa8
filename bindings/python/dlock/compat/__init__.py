"""Classes with the signatures of other libraries, so that changing an import migrates.

``dlock.compat.redis.Lock`` stands in for ``redis.lock.Lock``, ``dlock.compat.kazoo`` for
``kazoo.recipe.lock``. On the server they share their locks with the originals.
"""

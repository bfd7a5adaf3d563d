"""Faulty variants that the tests must catch, in the order of the data flow.

When a function moves, update only `module` or `function` of its variants.
"""

from tests.mutations.mutation import Mutation
from tests.mutations.variants_of_models import VARIANTS_OF_MODELS
from tests.mutations.variants_of_programs import VARIANTS_OF_PROGRAMS
from tests.mutations.variants_of_text import VARIANTS_OF_TEXT

VARIANTS: tuple[Mutation, ...] = (
    *VARIANTS_OF_TEXT,
    *VARIANTS_OF_MODELS,
    *VARIANTS_OF_PROGRAMS,
)

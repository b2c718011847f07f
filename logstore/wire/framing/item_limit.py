"""A bound for all arrays of a message together, where decoders bound each array alone. Pure."""


class ItemLimit(int):
    """As `count_max` of a decoder: each array that is decoded takes its items off what is left.

    For one message. Decoders compare `count <= count_max` once per array, before they read it.
    """

    _left: int

    def __new__(cls, count_max: int) -> "ItemLimit":
        limit = super().__new__(cls, count_max)
        limit._left = count_max
        return limit

    def __ge__(self, count: int) -> bool:
        self._left -= count
        return self._left >= 0

    @property
    def is_exceeded(self) -> bool:
        """Whether an array had more items than were left for it."""
        return self._left < 0

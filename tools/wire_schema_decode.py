"""Writes the decoding half of a generated message: straight-line Python per struct and version.

Runs of fixed fields, and the length that follows them, are read by one `struct.Struct`; a varint
is taken to be one byte until it proves longer; versions whose code is equal share one function.
In the code that comes out, `n` is a length or count as it stands on the wire, `at` a byte position.
"""

from tools.wire_schema import Field, Layout, Shape
from tools.wire_schema_text import WIDTH, Functions, indent, literal, snake

_ARGUMENTS = "buf, at, end, count_max"


class Decoders:
    def __init__(self, functions: Functions, shapes: dict[str, Shape], views: bool) -> None:
        """`views`: the message holds records, which are to stay views of the buffer they came in.

        Any other message is decoded from `bytes`, which Python indexes and slices faster.
        """
        self._functions = functions
        self._shapes = shapes
        self._views = views
        self._parameters = f"buf: {_buffer(views)}, at: int, end: int, count_max: int"

    def root(self, layout: Layout, version: int) -> str:
        """Emit `(any buffer, at, end, count_max) -> (message, at)`; returns its name."""
        return self._single(layout, version, is_root=True)

    def _single(self, layout: Layout, version: int, is_root: bool) -> str:
        body = self._body(layout, version)
        kind = _buffer(self._views)
        convert = [f"    buf = data if type(data) is {kind} else {kind}(data)"] if is_root else []
        parameters = self._parameters.replace(
            f"buf: {kind}", "data: Buffer" if is_root else f"buf: {kind}"
        )

        def write(name: str) -> str:
            return "\n".join(
                [
                    f"def {name}({parameters}) -> tuple[{layout.name}, int]:",
                    *convert,
                    f"    o = new({layout.name})",
                    "    try:",
                    *indent(body, 2),
                    "    except UNREADABLE as failure:",
                    "        raise unreadable(failure, at, o) from None",
                    "    return o, at",
                ]
            )

        return self._functions.add(f"decode_{snake(layout.name)}", version, write)

    def _many(self, layout: Layout, version: int) -> str:
        """Emit `(buf, at, end, count_max, count) -> (list of structs, at)`; returns its name."""
        body = self._body(layout, version)
        least = bytes_min(layout)

        def write(name: str) -> str:
            return "\n".join(
                [
                    f"def {name}({self._parameters}, count: int)"
                    f" -> tuple[list[{layout.name}], int]:",
                    f"    if not 0 <= count <= count_max or count * {least} > end - at:",
                    f'        raise bad_count("{layout.name}", at, count, count_max, end - at)',
                    f"    items: list[{layout.name}] = []",
                    "    try:",
                    "        for _ in range(count):",
                    f"            o = new({layout.name})",
                    *indent(body, 3),
                    "            items.append(o)",
                    "    except UNREADABLE as failure:",
                    "        raise unreadable(failure, at, o) from None",
                    "    return items, at",
                ]
            )

        return self._functions.add(f"decode_{snake(layout.name)}_list", version, write)

    def _body(self, layout: Layout, version: int) -> list[str]:
        run = _Run(self._functions)
        present = {field.name for field in layout.untagged}
        for name, field in self._shapes[layout.name].fields.items():
            if name not in present:
                run.lines.append(f"o.{name} = {literal(field.default)}")
        for field in layout.untagged:
            self._field(run, field, version)
        if layout.flexible:
            run.read("n", "B")
            run.flush()
            known = self._tags(layout, version) if layout.tagged else None
            call = (
                f"{known}(o, buf, at - 1, end, count_max)"
                if known
                else "skip_tags(buf, at - 1, end)"
            )
            run.lines += ["if n:", f"    at = {call}"]
        run.flush()
        return run.lines

    def _field(self, run: "_Run", field: Field, version: int) -> None:
        target = f"o.{field.name}"
        if field.array:
            run.length(field)
            run.lines += _or_null(field, target, self._array(field, target, version))
        elif field.kind == "struct":
            self._struct(run, field, target, version)
        elif field.kind in ("string", "bytes", "records"):
            run.length(field)
            run.lines += _or_null(field, target, self._bytes(field, target))
        else:
            run.read(target, field.kind)

    def _array(self, field: Field, target: str, version: int) -> list[str]:
        count = "n - 1" if field.compact else "n"
        if field.layout is not None:
            many = self._many(field.layout, version)
            empty = 1 if field.compact else 0
            return [
                f"if n == {empty}:",
                f"    {target} = []",
                "else:",
                f"    {target}, at = {many}({_ARGUMENTS}, {count})",
            ]
        if field.kind == "string":
            helper = "decode_compact_string_array" if field.compact else "decode_string_array"
            return [f"{target}, at = {helper}({_ARGUMENTS}, {count})"]
        if field.kind == "16s":
            raise ValueError("arrays of uuids are not supported")  # no message has one
        fixed = self._functions.fixed(field.kind)
        return [f"{target}, at = decode_fixed_array({_ARGUMENTS}, {count}, {fixed})"]

    def _bytes(self, field: Field, target: str) -> list[str]:
        piece = "buf[at:stop]"
        copied = f"{piece}.tobytes()" if self._views else piece
        value = {"string": f"{copied}.decode()", "bytes": copied, "records": piece}[field.kind]
        return [
            f"stop = at + n{' - 1' if field.compact else ''}",
            "if not at <= stop <= end:",
            "    raise bad_length(stop - at, end - at)",
            f"{target} = {value}",
            "at = stop",
        ]

    def _struct(self, run: "_Run", field: Field, target: str, version: int) -> None:
        assert field.layout is not None
        call = f"{target}, at = {self._single(field.layout, version, is_root=False)}({_ARGUMENTS})"
        if not field.nullable:
            run.flush()
            run.lines.append(call)
            return
        run.read("n", "b")  # KIP-893: -1 is null, 1 is not
        run.flush()
        run.lines += ["if n < 0:", f"    {target} = None", "else:", f"    {call}"]

    def _tags(self, layout: Layout, version: int) -> str:
        branches: list[str] = []
        for field in layout.tagged:
            value = _Run(self._functions)
            self._field(value, field, version)
            value.flush()
            word = "elif" if branches else "if"
            branches += [f"{word} tag == {field.tag}:", *indent(value.lines)]

        def write(name: str) -> str:
            return "\n".join(
                [
                    f"def {name}(o: {layout.name}, {self._parameters}) -> int:",
                    "    try:",
                    "        count, at = decode_varint(buf, at)",
                    "        for _ in range(count):",
                    "            tag, at, tag_end = decode_tag(buf, at, end)",
                    *indent(branches, 3),
                    "            else:",
                    "                at = tag_end",
                    "            if at != tag_end:",
                    '                raise ValueError(f"tag={tag} does not end where it says")',
                    "    except UNREADABLE as failure:",
                    "        raise unreadable(failure, at, o) from None",
                    "    return at",
                ]
            )

        return self._functions.add(f"decode_{snake(layout.name)}_tags", version, write)


class _Run:
    """Lines of one function, and the fixed fields not yet read, which one unpack will cover."""

    def __init__(self, functions: Functions) -> None:
        self.lines: list[str] = []
        self._functions = functions
        self._pending: list[tuple[str, str]] = []

    def read(self, target: str, code: str) -> None:
        self._pending.append((target, code))

    def length(self, field: Field) -> None:
        """Read the length or count of `field` into n, together with the run before it."""
        if not field.compact:
            self.read("n", "h" if field.kind == "string" and not field.array else "i")
            self.flush()
            return
        self.read("n", "B")
        self.flush()
        text = field.kind == "string" and not field.array
        helper = "decode_string_length" if text else "decode_varint"
        longer = [f"n, at = {helper}(buf, at - 1)"]
        if field.kind == "records":  # mostly two bytes
            longer = ["if buf[at] < 128:", "    n += (buf[at] << 7) - 128", "    at += 1"]
            longer += ["else:", f"    n, at = {helper}(buf, at - 1)"]
        self.lines += ["if n > 127:", *indent(longer)]

    def flush(self) -> None:
        if not self._pending:
            return
        targets, codes = map(list, zip(*self._pending, strict=True))
        self._pending = []
        if codes == ["B"]:
            self.lines.append(f"{targets[0]} = buf[at]")
        else:
            unpack = self._functions.unpacker(codes)
            comma = "," if len(targets) == 1 else ""
            self.lines.append(f"{', '.join(targets)}{comma} = {unpack}(buf, at)")
        self.lines.append(f"at += {sum(WIDTH[code] for code in codes)}")


def _buffer(views: bool) -> str:
    return "memoryview" if views else "bytes"


def bytes_min(layout: Layout) -> int:
    """Fewest bytes one such struct takes: bounds how many items an array can have."""
    return sum(map(_field_bytes_min, layout.untagged)) + layout.flexible


def _field_bytes_min(field: Field) -> int:
    if field.kind == "struct" and not field.array:
        assert field.layout is not None
        return 1 if field.nullable else bytes_min(field.layout)
    if field.array or field.kind in ("string", "bytes", "records"):
        legacy = 2 if field.kind == "string" and not field.array else 4
        return 1 if field.compact else legacy
    return WIDTH[field.kind]


def _or_null(field: Field, target: str, lines: list[str]) -> list[str]:
    if not field.nullable:
        return lines
    null = "n == 0" if field.compact else "n == -1"
    return [f"if {null}:", f"    {target} = None", "else:", *indent(lines)]

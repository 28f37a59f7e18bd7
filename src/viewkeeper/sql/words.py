"""The words of one statement and a place among them, for the statements whose clauses sqlglot's parser does not know.

sqlglot's tokenizer makes the words, so comments, strings and quoted names are told apart as they are everywhere else. A
word is compared as it stands in the text: a quoted one is never a keyword. Every error says where it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import Token, TokenType
from sqlglot.dialects.dialect import Dialect

from viewkeeper.errors import StatementError
from viewkeeper.sql.syntax import DIALECT, syntax_error, tokens

_NAMES = frozenset(Dialect.get_or_raise(DIALECT).parser_class.ID_VAR_TOKENS)
"""Keywords that are names too where a name is wanted, as in the rest of sqlglot's SQL."""


def only_statement(text: str) -> str:
    """The only statement in a text, as it was written and without the sign that ends it.

    >>> only_statement("SELECT ';' FROM t ; -- done")
    "SELECT ';' FROM t"
    """
    words = Words.of(text)
    words.refuse_others()
    return text[: words.end].rstrip()


@dataclass
class Words:
    """The words of the first statement in `text`, which ends before `end`; `others` counts the statements after it."""

    text: str
    words: tuple[Token, ...]
    end: int
    others: int = 0
    place: int = 0

    @classmethod
    def of(cls, text: str) -> Words:
        """
        >>> Words.of("DROP -- it\\n VIEW `v`;").written(2)
        '`v`'
        """
        statements: list[tuple[list[Token], int]] = []
        words: list[Token] = []
        for token in tokens(text):
            if token.token_type is not TokenType.SEMICOLON:
                words.append(token)
            elif words:
                statements.append((words, token.start))
                words = []
        if words or not statements:
            statements.append((words, len(text)))
        (first, end), *others = statements
        return cls(text, tuple(first), end, len(others))

    def refuse_others(self) -> None:
        if self.others:
            count = self.others + 1
            raise StatementError(f"the text has {count} statements", hint="give one statement per call", text=self.text)

    @property
    def ended(self) -> bool:
        return self.place >= len(self.words)

    def written(self, place: int) -> str:
        """A word as it stands in the text, quotes and all."""
        word = self.words[place]
        return self.text[word.start : word.end + 1]

    def accept(self, *keywords: str) -> bool:
        """Go past the keywords if they are all next; else stay.

        sqlglot makes one word of some pairs (CLUSTER BY), and two of them if a comment is between.
        """
        place, left = self.place, list(keywords)
        while left and place < len(self.words):
            parts = self.written(place).upper().split()
            if left[: len(parts)] != parts:
                break
            left, place = left[len(parts) :], place + 1
        if left:
            return False
        self.place = place
        return True

    def accept_one(self, *keywords: str) -> str | None:
        """Go past one of the keywords, and say which."""
        return next((keyword for keyword in keywords if self.accept(keyword)), None)

    def accept_name(self) -> str | None:
        """Go past a name, and give it without its quotes."""
        if self.ended:
            return None
        word = self.words[self.place]
        if word.token_type is not TokenType.IDENTIFIER and word.token_type not in _NAMES:
            return None
        self.place += 1
        return word.text

    def accept_number(self) -> str | None:
        """Go past a number, with its sign if it has one, and give it as Python would write it."""
        before = self.place
        sign = "-" if self.accept("-") else ""
        point = "." if self.accept(".") else ""
        if not self.ended and self.words[self.place].token_type is TokenType.NUMBER:
            number = self.words[self.place].text
            self.place += 1
            return sign + point + number
        self.place = before
        return None

    def error(self, fact: str, *, since: int | None = None, hint: str | None = None) -> StatementError:
        """`fact` about the next word (at the end, about the last), or about the words from place `since` to here."""
        if since is None and self.ended:
            fact = f"{fact}, and the statement ends"
        first = min(self.place if since is None else since, len(self.words) - 1)
        last = first if since is None else self.place - 1
        start, end = self.words[first].start, self.words[last].end + 1
        line = self.text.count("\n", 0, start) + 1
        column = start - self.text.rfind("\n", 0, start)
        return syntax_error(line, column, self.text[start:end], fact, hint=hint)

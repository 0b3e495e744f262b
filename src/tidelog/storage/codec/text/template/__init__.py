"""Text by templates: lines that differ in numbers, as logs have them, by what they have in common.

Each value is cut into *constants* and *slots*. A slot is, of a token (letters and digits in a row):

- the whole token if it is made of decimal digits, or of hexadecimal ones of one case (with a digit among them, or at
  least four): numbers and identifiers, in parts of 16 characters;
- otherwise each run of digits in it, if there are at most three: ``user17``, ``12ms``, ``01T12``;
- otherwise the whole token, as a *word*.

The constants of a value and the places of slots between them are its *template*. A block has few templates and many
values of slots, or else it is not encoded this way. A slot of a template has one kind for all rows of the block:
decimal numbers, strings of digits (with leading zeros), hexadecimal numbers of one length, or words, which are
numbered. So all values are integers, of as many bits as the largest needs. A slot that never changes is a constant.

``TEXT_TEMPLATE``, with parameter 0, holds the templates as operations: append a constant, then a value as text. The
values of all slots of a row, and of all rows of a vector, stand one behind the other in one stream of bits. Null rows
have no bits. The body, for ``v`` vectors of 1,024 rows:

======  ====  ==========================================================================================
offset  type  field
======  ====  ==========================================================================================
0       u32   number of operations
4       u32   number of bases
8       u32   bytes of the constants
12      u32   number of words
16      u32   bytes of the words
20      u32   bytes the table is stored in
24      u32   compression of the table
28      u32   bytes of the stream of templates
32      8     for each of the ``v`` vectors: u32 bytes of its text, u32 bytes of its values (a multiple of 8)
32+8v   ...   stream of templates: for each row the number of its template
...     ...   table: for each operation u8 length of its constant, u8 kind, u8 width in bits; u64 bases; u8 size of
              each word; the constants; the words
...     ...   values of the vectors
...     16    zeros
======  ====  ==========================================================================================

Kinds of operations, in bits 0 to 2: 0 end of the template, 1 nothing behind the constant, 2 decimal number, 3 string of
digits by its rank, 4 and 5 hexadecimal number with lower- and upper-case letters, 6 word. Bit 3: the next base is to be
added to the value. Bits 4 to 7, of hexadecimal numbers: their digits, less one. The *rank* of a string of digits is its
place among all of them, by length and then by value.
"""

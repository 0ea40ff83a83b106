"""Token bytes against what the tokenizers themselves encode, labels against hand-written ones."""

from __future__ import annotations

import pytest
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from eagle3_viz.tokens import split_utf8, token_bytes, visible

TEXT = (
    "The cat's naïve  plan:\n\tΑθήνα, Москва, "
    "你好, こんにちは, مرحبا, שלום 🙂👩‍💻 e\u0301 \u00a0end"
)
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    tokenizer.add_special_tokens(["<|im_end|>"])
    tokenizer.add_tokens([AddedToken("né <x>", normalized=False)])
    return tokenizer


def llama2_style() -> Tokenizer:
    pieces = ["<unk>", "<s>", *BYTE_TOKENS, "▁", "▁▁", *"TheCat", "Th", "▁Th", "▁The"]
    merges = [("T", "h"), ("▁", "Th"), ("▁Th", "e"), ("▁", "▁")]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: i for i, piece in enumerate(dict.fromkeys(pieces))},
            merges=merges,
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<s>", "<▁mask▁>"])
    tokenizer.add_tokens([AddedToken("▁▁", normalized=False)])
    return tokenizer


def unigram() -> Tokenizer:
    pieces = ["<unk>", *BYTE_TOKENS, "▁", "▁The", "▁cat", *"abcdefghijklmnopqrstuvwxyzTM'"]
    tokenizer = Tokenizer(
        models.Unigram([(p, -float(i)) for i, p in enumerate(pieces)], 0, byte_fallback=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return tokenizer


def fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def joined(tokenizer: Tokenizer, text: str) -> str:
    table = token_bytes(fast(tokenizer))
    return b"".join(table[i] for i in tokenizer.encode(text).ids).decode("utf-8")


def test_byte_level_tokens_join_to_the_text() -> None:
    assert joined(byte_level(), TEXT) == TEXT


@pytest.mark.parametrize("build", [llama2_style, unigram])
def test_sentencepiece_tokens_join_to_the_text_after_the_dummy_space(build) -> None:
    assert joined(build(), TEXT) == " " + TEXT


def test_every_single_byte_is_the_bytes_of_some_byte_level_token() -> None:
    assert {bytes([b]) for b in range(256)} <= set(token_bytes(fast(byte_level())))


def test_added_tokens_of_a_byte_level_vocabulary_are_their_text() -> None:
    tokenizer = byte_level()
    assert joined(tokenizer, "a né <x><|im_end|>") == "a né <x><|im_end|>"


def test_special_tokens_keep_the_space_sign_and_other_added_tokens_do_not() -> None:
    tokenizer = llama2_style()
    table = token_bytes(fast(tokenizer))
    assert table[tokenizer.token_to_id("<▁mask▁>")] == "<▁mask▁>".encode()
    assert table[tokenizer.token_to_id("▁▁")] == b"  "


def test_byte_tokens_are_bytes_only_where_the_decoder_says_so() -> None:
    with_fallback = llama2_style()
    without = llama2_style()
    without.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
    newline = with_fallback.token_to_id("<0x0A>")
    assert token_bytes(fast(with_fallback))[newline] == b"\n"
    assert token_bytes(fast(without))[newline] == b"<0x0A>"


def test_ids_without_a_token_are_empty() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "b": 3}, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    assert token_bytes(fast(tokenizer)) == [b"a", b"", b"", b"b"]


def test_the_pre_tokenizer_decides_when_there_is_no_decoder() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"Ġa": 0}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    assert token_bytes(fast(tokenizer)) == [b" a"]


def test_a_decoder_without_a_rule_is_refused_by_name() -> None:
    tokenizer = Tokenizer(models.WordPiece(vocab={"a": 0, "[UNK]": 1}))
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(ValueError, match="WordPiece"):
        token_bytes(fast(tokenizer))


def test_a_tokenizer_without_backend_is_refused() -> None:
    with pytest.raises(TypeError, match="str without backend_tokenizer"):
        token_bytes("tokenizer")


@pytest.mark.parametrize(
    ("data", "label"),
    [
        (b"", "∅"),
        (b" the", "·the"),
        (b"\n\n", "↵↵"),
        (b"\r\n", "␍↵"),
        (b"\t", "⇥"),
        ("\u00a0".encode(), "␣"),
        (b"\x00\x07\x1b\x1f", "␀␇␛␟"),
        (b"\x7f", "␡"),
        ("\u0085".encode(), "⟨U+0085⟩"),
        ("a\u202eb\u202c".encode(), "a⟨U+202E⟩b⟨U+202C⟩"),
        ("\u2066\u200f\u200b\u00ad\ufeff".encode(), "⟨U+2066⟩⟨U+200F⟩⟨U+200B⟩⟨U+00AD⟩⟨U+FEFF⟩"),
        ("\u2028\u2003\u3000".encode(), "⟨U+2028⟩⟨U+2003⟩⟨U+3000⟩"),
        ("\u3164\ufe0f\u2800".encode(), "⟨U+3164⟩⟨U+FE0F⟩⟨U+2800⟩"),
        ("\U000e0041\u0378\ue000".encode(), "⟨U+E0041⟩⟨U+0378⟩⟨U+E000⟩"),
        (b"\xf0\x9f", "‹F0 9F›"),
        (b"a\xffb", "a‹FF›b"),
        (b"\xed\xa0\x80", "‹ED A0 80›"),
        (b"\xc0\xaf", "‹C0 AF›"),
        ("\u0301x".encode(), "◌\u0301x"),
        ("e\u0301".encode(), "e\u0301"),
        (" مرحبا 你好".encode(), "·مرحبا·你好"),
        ("🙂".encode(), "🙂"),
        (b"<b>&amp;", "<b>&amp;"),
    ],
)
def test_label(data: bytes, label: str) -> None:
    assert visible(data) == label


def test_every_character_yields_a_label_that_shows() -> None:
    for code in range(0x110000):
        if not 0xD800 <= code <= 0xDFFF:
            label = visible(chr(code).encode())
            assert label.strip() and label.isprintable(), f"U+{code:04X} gives {label!r}"


@pytest.mark.parametrize(
    ("pieces", "groups"),
    [
        ([], []),
        ([b"a", b" b"], [(0, 1, "a"), (1, 2, "·b")]),
        ([b"\xf0\x9f", b"\x99\x82", b"!"], [(0, 2, "🙂"), (2, 3, "!")]),
        ([b"\xf0", b"\x9f", b"\x99", b"\x82"], [(0, 4, "🙂")]),
        ([b" \xe4\xbd", b"\xa0\xe5", b"\xa5\xbd."], [(0, 3, "·你好.")]),
        ([b"\xf0\x9f", b"a"], [(0, 1, "‹F0 9F›"), (1, 2, "a")]),
        ([b"\xf0\x9f", b"\xf0\x9f", b"\x99\x82"], [(0, 1, "‹F0 9F›"), (1, 3, "🙂")]),
        ([b"\x82", b"\x99"], [(0, 1, "‹82›"), (1, 2, "‹99›")]),
        ([b"\xe4\xbd"], [(0, 1, "‹E4 BD›")]),
        ([b"\xc0", b"\xaf"], [(0, 1, "‹C0›"), (1, 2, "‹AF›")]),
        ([b"", b"\xc3", b"\xa9", b""], [(0, 1, "∅"), (1, 3, "é"), (3, 4, "∅")]),
    ],
)
def test_parts_of_one_character_are_joined(
    pieces: list[bytes], groups: list[tuple[int, int, str]]
) -> None:
    assert split_utf8(pieces) == groups


def test_groups_of_a_text_cut_into_bytes_are_its_characters() -> None:
    text = "aé你🙂"
    pieces = [bytes([b]) for b in text.encode()]
    assert [label for _, _, label in split_utf8(pieces)] == list(text)

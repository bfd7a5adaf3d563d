"""Tokenizers of M2M100 and NLLB: ids of pieces and languages, and segmentation.

Both have the ids 0 to 3 for <s>, <pad>, </s> and <unk>, then the SentencePiece model's
pieces, then languages. Rows of the embedding that no piece has are kept.

Source: transformers 5, models/m2m_100/tokenization_m2m_100.py and
models/nllb/tokenization_nllb.py; the orders of languages are fairseq's.
"""

import base64
import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.interop.imported_model import IdMap
from t2t_keras.interop.sentencepiece_pair import check_pieces, read_spm
from t2t_keras.interop.transformers.folder import read_json, read_json_if_there
from t2t_keras.text.language_tags import LanguageTags
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.sentencepiece_models import make_bpe_model
from t2t_keras.text.tokenizers import SentencePieceTokenizer

_BOS, PAD, _EOS, _UNK = range(4)
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_SPM, _CONFIG, _FAST = (
    "sentencepiece.bpe.model",
    "tokenizer_config.json",
    "tokenizer.json",
)
# The code of a language in its piece, of M2M100 and of NLLB.
_LANGUAGE = re.compile(
    r"__([a-z]{2,3}(?:[-_][A-Za-z0-9]+)*)__|([a-z]{3}_[A-Z][a-z]{3})"
)
# Tokenizers that put languages before texts.
_CLASSES = (
    "M2M100Tokenizer",
    "NllbTokenizer",
    "NllbTokenizerFast",
    "PreTrainedTokenizerFast",
    "TokenizersBackend",
)

# Languages in the order of their ids, by the setting language_codes.
_M2M100_CODES = MappingProxyType(
    {
        "m2m100": (
            "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff "
            "fi fr fy ga gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk "
            "km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa "
            "pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur "
            "uz vi wo xh yi yo zh zu"
        ),
        "wmt21": "en ha is ja cs ru zh de",
    }
)
_NLLB_CODES = (
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab "
    "aka_Latn amh_Ethi apc_Arab arb_Arab ars_Arab ary_Arab arz_Arab "
    "asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl "
    "bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab "
    "bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn "
    "ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn "
    "dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn "
    "eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn "
    "fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn "
    "guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn "
    "hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn "
    "jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab "
    "kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn "
    "khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang "
    "kmr_Latn lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn "
    "lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn luo_Latn lus_Latn "
    "mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn "
    "mlt_Latn mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr "
    "nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn nya_Latn "
    "oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn "
    "por_Latn prs_Arab pbt_Arab quy_Latn ron_Latn run_Latn rus_Cyrl "
    "sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn "
    "slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn "
    "als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn "
    "szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai "
    "tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn tso_Latn tuk_Latn "
    "tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn "
    "urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn "
    "ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zul_Latn"
)


@dataclasses.dataclass(frozen=True)
class Tokenizer:
    """A model's tokenizer in terms of this project.

    Attributes:
        ids: Ids of both sides.
        vocabulary: The vocabulary of both sides.
        languages: Codes of the pair of a request that names none.
        language_ids: Their ids of all languages.
        files: Files that it was read from.
        warnings: What it does differently.
    """

    ids: IdMap
    vocabulary: PieceVocabulary
    languages: tuple[str, str]
    language_ids: Collection[int]
    files: Sequence[Path]
    warnings: Sequence[str] = ()


def open_tokenizer(
    path: Path,
    rows: int,
    languages: tuple[str | None, str | None],
    first_id: int | None = None,
) -> Tokenizer:
    """Returns the tokenizer of a folder.

    M2M100 has vocab.json and sentencepiece.bpe.model. NLLB has tokenizer.json or
    sentencepiece.bpe.model, or both; of the former alone, which transformers 5 writes,
    a SentencePiece model is made that splits the same words in the same way.

    Args:
        path: The folder.
        rows: Number of rows of the model's embedding.
        languages: Codes of the pair of a request that names none. Default: those of
            tokenizer_config.json.
        first_id: Their id of the first token of every output, the default of the target
            language before tokenizer_config.json; None for none.

    Raises:
        UserError: If a file is missing or damaged, files do not belong together, or no
            pair is named.
    """
    config = read_json_if_there(path / _CONFIG)
    _check_class(path, config)
    content, name = _read_spm(path)
    split = SentencePieceTokenizer(content, name)
    processor = split.processor
    learned = [
        processor.id_to_piece(i)
        for i in range(len(_SPECIAL) - 1, processor.get_piece_size())
    ]
    ids, files = _read_ids(path, config, learned)
    added = _added_ids(path, config)
    pieces = {i: piece for piece, i in ids.items()}
    for token, i in added.items():
        if pieces.get(i, token) != token:
            raise UserError(
                f"The tokenizer in {path} has the id {i} for {pieces[i]} and for the "
                f"added token {token}. Save it again with one id for each."
            )
    ids |= added
    id_map = _map_ids(path, ids, rows)
    check_pieces(path / _SPM, processor, id_map.pieces)
    tags = _find_languages(id_map.pieces, {*learned})
    tagged = _with_pair(path, tags, languages, config, ids, first_id)
    spelled = {*learned} - {*tags.values()}
    vocabulary = PieceVocabulary(
        id_map.pieces,
        split,
        skips_unknown=True,
        without_text=[each for each in id_map.pieces[3:] if each not in spelled],
        languages=tagged,
    )
    files += filter(Path.is_file, [path / _CONFIG, path / "added_tokens.json"])
    return Tokenizer(
        id_map,
        vocabulary,
        (tagged.source, tagged.target),
        frozenset(ids[tag] for tag in tags.values()),
        list(dict.fromkeys(files)),
        list(_warnings(config, added, tags)),
    )


def _check_class(path: Path, config: Mapping[str, Any]) -> None:
    kind = config.get("tokenizer_class")
    if kind is not None and kind not in _CLASSES:
        raise UserError(
            f"{path} has a {kind}, which may mark languages in another way. Expected "
            f"tokenizer_class {', '.join(_CLASSES)}."
        )


def _read_spm(path: Path) -> tuple[bytes, str]:
    """Returns the SentencePiece model, read or made, and its name for messages."""
    if (path / _SPM).is_file() or not (path / _FAST).is_file():
        return read_spm(path / _SPM)
    return _convert(path / _FAST), f"The file {path / _FAST}"


def _read_ids(
    path: Path, config: Mapping[str, Any], learned: Sequence[str]
) -> tuple[dict[str, int], list[Path]]:
    """Returns ids by piece without added tokens, and the files that they are from.

    After the vocabulary come the languages, unless a file says otherwise.
    """
    vocabulary_file, fast_file, spm_file = (
        path / "vocab.json",
        path / _FAST,
        path / _SPM,
    )
    files, names = [], []
    if vocabulary_file.is_file():
        ids, files = {**read_json(vocabulary_file)}, [vocabulary_file]
        codes = _M2M100_CODES.get(str(config.get("language_codes", "m2m100")), "")
        names = [f"__{code}__" for code in codes.split()]
    elif fast_file.is_file():
        vocabulary = read_json(fast_file)["model"]["vocab"]
        if isinstance(vocabulary, list):  # of a unigram model: pieces and their scores
            vocabulary = {piece: i for i, (piece, _) in enumerate(vocabulary)}
        ids, files = {**vocabulary}, [fast_file]
    else:
        ids = {piece: i for i, piece in enumerate([*_SPECIAL, *learned])}
        names = [*_NLLB_CODES.split(), "<mask>"]
    first = len(ids)
    ids |= {name: i for i, name in enumerate(names, first) if name not in ids}
    return ids, [*files, *filter(Path.is_file, [spm_file])]


def _warnings(
    config: Mapping[str, Any], added: Mapping[str, int], tags: Mapping[str, str]
) -> Iterator[str]:
    if config.get("legacy_behaviour"):
        yield (
            "legacy_behaviour: True is ignored; the language of a source is before it, "
            "as in the training of NLLB"
        )
    known = {*tags.values(), *_SPECIAL, "<mask>"}
    others = [token for token in added if token not in known]
    if others:
        yield f"tokens that were added have no text: {', '.join(others[:10])}"


def _added_ids(path: Path, config: Mapping[str, Any]) -> dict[str, int]:
    """Returns the ids of tokens that files add to the vocabulary."""
    added = {
        name: i
        for name, i in read_json_if_there(path / "added_tokens.json").items()
        if isinstance(i, int)
    }
    decoder = config.get("added_tokens_decoder") or {}
    added |= {token["content"]: int(i) for i, token in decoder.items()}
    if (path / _FAST).is_file():
        tokens = read_json(path / _FAST).get("added_tokens") or []
        added |= {token["content"]: int(token["id"]) for token in tokens}
    return added


def _map_ids(path: Path, ids: Mapping[str, int], rows: int) -> IdMap:
    """Returns the ids of all rows; those that no piece has get names."""
    for i, piece in enumerate(_SPECIAL):
        if ids.get(piece) != i:
            raise UserError(
                f"The tokenizer in {path} must have {piece} with the id {i}. Received: "
                f"{ids.get(piece)}"
            )
    by_id = {i: piece for piece, i in ids.items()}
    beyond = [i for i in by_id if not (isinstance(i, int) and 0 <= i < rows)]
    if beyond or len(by_id) < len(ids):
        raise UserError(
            f"The tokenizer in {path} must have an id from 0 to {rows - 1} for each "
            f"piece, the rows of the model. Received: {len(ids)} pieces with "
            f"{len(by_id)} ids, {beyond[:1] or 'one twice'} among them. It belongs to "
            "another model."
        )
    pieces = [by_id.get(i, f"<row {i}>") for i in range(rows)]
    return IdMap.from_pieces(pieces, pad=PAD, eos=_EOS, unk=_UNK)


def _find_languages(pieces: Sequence[str], learned: Collection[str]) -> dict[str, str]:
    """Returns the pieces of languages by their codes; learned pieces are none."""
    matches = [
        (piece, _LANGUAGE.fullmatch(piece)) for piece in pieces if piece not in learned
    ]
    return {match[1] or match[2]: piece for piece, match in matches if match}


def _with_pair(
    path: Path,
    tags: Mapping[str, str],
    languages: tuple[str | None, str | None],
    config: Mapping[str, Any],
    ids: Mapping[str, int],
    first_id: int | None,
) -> LanguageTags:
    if not tags:
        raise UserError(f"The tokenizer in {path} has no languages.")
    first = next((code for code, tag in tags.items() if ids.get(tag) == first_id), None)
    source = languages[0] or config.get("src_lang")
    target = languages[1] or first or config.get("tgt_lang")
    if not (source and target):
        raise UserError(
            f"{path} translates between {len(tags)} languages. Give the pair of a "
            "request that names none: --source_language and --target_language, such as "
            f"{' or '.join(list(tags)[:2])}."
        )
    return LanguageTags(tags, str(source), str(target))


def _convert(path: Path) -> bytes:
    """Returns a SentencePiece model of the file tokenizer.json.

    Raises:
        UserError: If it is not of the kind that NLLB has.
    """
    content = read_json(path)
    model, normalizer = content["model"], content.get("normalizer") or {}
    steps = normalizer.get("normalizers", [normalizer])
    maps = [each for each in steps if each.get("type") == "Precompiled"]
    if model.get("type") != "BPE" or len(maps) > 1:
        raise UserError(
            f"{path} has the kind {model.get('type')}, of which no SentencePiece model "
            f"can be made. Put {_SPM} of the original model beside it."
        )
    added = {token["content"] for token in content.get("added_tokens") or []}
    pieces = [
        piece
        for piece in sorted(model["vocab"], key=model["vocab"].__getitem__)
        if piece not in added and not _LANGUAGE.fullmatch(piece)
    ]
    charsmap = base64.b64decode(maps[0]["precompiled_charsmap"]) if maps else b""
    return make_bpe_model([p for p in pieces if p not in _SPECIAL], charsmap)

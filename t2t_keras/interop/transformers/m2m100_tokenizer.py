"""Tokenizers of M2M100 and NLLB: ids of pieces and languages, and segmentation.

Both have the ids 0 to 3 for <s>, <pad>, </s> and <unk>, then the SentencePiece model's
pieces, then languages. Rows of the embedding that no piece has are kept.

Source: transformers 5, models/m2m_100/tokenization_m2m_100.py and
models/nllb/tokenization_nllb.py; the orders of languages are fairseq's.
"""

import base64
import dataclasses
import re
from collections.abc import Mapping, Sequence
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
_LANGUAGE = re.compile(r"__(.+)__|([a-z]{3}_[A-Z][a-z]{3})")

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
        files: Files that it was read from.
        warnings: What it does differently.
    """

    ids: IdMap
    vocabulary: PieceVocabulary
    languages: tuple[str, str]
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
    vocabulary_file, fast_file = path / "vocab.json", path / _FAST
    if vocabulary_file.is_file():
        ids = {**read_json(vocabulary_file)}
        files = [vocabulary_file]
        codes = _M2M100_CODES.get(config.get("language_codes", "m2m100"), "").split()
        names = [f"__{code}__" for code in codes]
    elif fast_file.is_file():
        ids = {**read_json(fast_file)["model"]["vocab"]}
        files, names = [fast_file], []
    else:
        tokenizer = SentencePieceTokenizer(*read_spm(path / _SPM))
        processor = tokenizer.processor
        size = processor.get_piece_size()
        own = [processor.id_to_piece(i) for i in range(len(_SPECIAL) - 1, size)]
        ids = {piece: i for i, piece in enumerate([*_SPECIAL, *own])}
        files, names = [], [*_NLLB_CODES.split(), "<mask>"]
    # What follows the vocabulary, unless a file says otherwise.
    ids |= {name: i for i, name in enumerate(names, len(ids)) if name not in ids}
    added = _added_ids(path, config)
    ids = {name: i for name, i in ids.items() if i not in {*added.values()}} | added
    id_map = _map_ids(path, ids, rows)
    spm_file = path / _SPM
    if spm_file.is_file():
        content, name = read_spm(spm_file)
        files.append(spm_file)
    else:
        content, name = _convert(fast_file), f"The file {fast_file}"
    files += filter(Path.is_file, [path / _CONFIG, path / "added_tokens.json"])
    split = SentencePieceTokenizer(content, name)
    check_pieces(spm_file, split.processor, id_map.pieces)
    tags = _find_languages(id_map.pieces)
    tagged = _with_pair(path, tags, languages, config, ids, first_id)
    processor = split.processor
    spelled = {processor.id_to_piece(i) for i in range(processor.get_piece_size())}
    spelled.discard(_SPECIAL[_BOS])
    silent = [piece for piece in id_map.pieces[3:] if piece not in spelled]
    vocabulary = PieceVocabulary(
        id_map.pieces,
        split,
        skips_unknown=True,
        without_text=silent,
        languages=tagged,
    )
    warnings = []
    if config.get("legacy_behaviour"):
        warnings.append(
            "legacy_behaviour: True is ignored; the language of a source is before it, "
            "as in the training of NLLB"
        )
    pair = tagged.source, tagged.target
    return Tokenizer(id_map, vocabulary, pair, list(dict.fromkeys(files)), warnings)


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
    beyond = [i for i in by_id if not 0 <= i < rows]
    if beyond or len(by_id) < len(ids):
        raise UserError(
            f"The tokenizer in {path} must have an id from 0 to {rows - 1} for each "
            f"piece, the rows of the model. Received: {len(ids)} pieces, and ids up to "
            f"{max(by_id)}. It belongs to another model."
        )
    pieces = [by_id.get(i, f"<row {i}>") for i in range(rows)]
    return IdMap.from_pieces(pieces, pad=PAD, eos=_EOS, unk=_UNK)


def _find_languages(pieces: Sequence[str]) -> dict[str, str]:
    """Returns the pieces of languages by their codes."""
    matches = [(piece, _LANGUAGE.fullmatch(piece)) for piece in pieces]
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
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    charsmap = base64.b64decode(maps[0]["precompiled_charsmap"]) if maps else b""
    return make_bpe_model([p for p in pieces if p not in _SPECIAL], charsmap)

"""Languages: what their codes have in common, and their names."""

import re
from types import MappingProxyType

# Codes of a language that has several; the second is py3langid's. Those of three
# letters (ISO 639-3) are NLLB's, where there is one of two letters (ISO 639-1).
_SYNONYMS = MappingProxyType(
    {
        code: other
        for code, _, other in (
            pair.partition("=")
            for pair in (
                "nb=no fil=tl iw=he ns=nso "
                "afr=af aka=ak als=sq amh=am arb=ar asm=as ayr=ay azj=az bak=ba bam=bm "
                "bel=be ben=bn bod=bo bos=bs bul=bg cat=ca ces=cs cym=cy dan=da deu=de "
                "dzo=dz ell=el eng=en epo=eo est=et eus=eu ewe=ee fao=fo fij=fj fin=fi "
                "fra=fr fuv=ff gaz=om gla=gd gle=ga glg=gl grn=gn guj=gu hat=ht hau=ha "
                "heb=he hin=hi hrv=hr hun=hu hye=hy ibo=ig ind=id isl=is ita=it jav=jv "
                "jpn=ja kan=kn kas=ks kat=ka kaz=kk khk=mn khm=km kik=ki kin=rw kir=ky "
                "kmr=ku kon=kg kor=ko lao=lo lim=li lin=ln lit=lt ltz=lb lug=lg lvs=lv "
                "mal=ml mar=mr mkd=mk mlt=mt mri=mi mya=my nld=nl nno=nn nob=no npi=ne "
                "nya=ny oci=oc ory=or pan=pa pbt=ps pes=fa plt=mg pol=pl por=pt "
                "quy=qu ron=ro run=rn rus=ru sag=sg san=sa sin=si slk=sk slv=sl smo=sm "
                "sna=sn snd=sd som=so sot=st spa=es srd=sc srp=sr ssw=ss sun=su swe=sv "
                "swh=sw tam=ta tat=tt tel=te tgk=tg tgl=tl tha=th tir=ti tsn=tn tso=ts "
                "tuk=tk tur=tr twi=tw uig=ug ukr=uk urd=ur uzn=uz vie=vi wol=wo xho=xh "
                "ydd=yi yor=yo zho=zh zsm=ms zul=zu"
            ).split()
        )
    }
)


def base_language(code: str) -> str:
    """Returns the language of a code, without script and region.

    >>> [base_language(code) for code in ("pt-BR", "nb", "nob_Latn", "ace_Latn")]
    ['pt', 'no', 'no', 'ace']
    """
    language = re.split("[-_]", code, maxsplit=1)[0].lower()
    return _SYNONYMS.get(language, language)


def is_variant(code: str, of: str) -> bool:
    """Returns whether a code is another, or begins with it: en-US and en_GB with en."""
    code, of = (each.replace("_", "-").lower() for each in (code, of))
    return f"{code}-".startswith(f"{of}-")


def language_name(code: str, *, own: bool = False) -> str:
    """Returns the name of a language; the code without Babel or if it knows no name.

    Args:
        code: Code of the language, with "-" before a script or region.
        own: Whether the name is in the language itself, or in English.
    """
    # The import takes longer than most calls of programs that need no names.
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError:  # of an extra; training asks for names only to warn
        return code

    try:
        name = Locale.parse(code, sep="-").get_display_name(None if own else "en")
    except (UnknownLocaleError, ValueError):
        name = Locale("en").languages.get(base_language(code))
    return name or code

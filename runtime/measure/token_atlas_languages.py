"""The 52 languages of the benchmark, typed in: what they are called, how they are written, how Petrov et al. call them.

Names and scripts after FLORES-200 (NLLB Team 2022, arXiv 2207.04672, table 1) and ISO 15924; families as linguists group
them, Indo-European by branch. `spaced`: words are separated by spaces, so that they can be counted (Vietnamese separates
syllables, Korean phrases: said in the card).
"""

COLUMNS = ("language", "name", "iso639_1", "script", "script_name", "family", "spaced", "direction", "aliases")
SCRIPTS = {
    "Latn": "Latin", "Cyrl": "Cyrillic", "Grek": "Greek", "Armn": "Armenian", "Geor": "Georgian", "Hebr": "Hebrew",
    "Arab": "Arabic", "Deva": "Devanagari", "Beng": "Bengali", "Guru": "Gurmukhi", "Gujr": "Gujarati", "Orya": "Odia",
    "Taml": "Tamil", "Telu": "Telugu", "Knda": "Kannada", "Mlym": "Malayalam", "Sinh": "Sinhala", "Thai": "Thai",
    "Laoo": "Lao", "Mymr": "Burmese", "Khmr": "Khmer", "Tibt": "Tibetan", "Ethi": "Ethiopic", "Hans": "Han",
    "Jpan": "Japanese", "Hang": "Hangul",
}
UNSPACED = frozenset({"tha_Thai", "lao_Laoo", "mya_Mymr", "khm_Khmr", "bod_Tibt", "zho_Hans", "jpn_Jpan"})
ALIASES = {
    "zho_Hans": "Mandarin;Simplified Chinese;zh-CN;zh-Hans", "pes_Arab": "Farsi", "ben_Beng": "Bangla", "ory_Orya": "Oriya",
    "mya_Mymr": "Myanmar", "pan_Guru": "Panjabi", "tgl_Latn": "Filipino;fil", "arb_Arab": "Standard Arabic",
    "swh_Latn": "Kiswahili", "sin_Sinh": "Sinhalese", "uig_Arab": "Uighur", "por_Latn": "pt-BR", "heb_Hebr": "iw",
    "ind_Latn": "Bahasa Indonesia", "bod_Tibt": "Standard Tibetan",
}
RIGHT_TO_LEFT = frozenset({"Arab", "Hebr"})

# FLORES code, name, ISO 639-1, family, the name in Petrov et al.'s table where it is another
LANGUAGES = (
    ("eng_Latn", "English", "en", "Germanic", ""),
    ("fra_Latn", "French", "fr", "Romance", ""),
    ("deu_Latn", "German", "de", "Germanic", ""),
    ("spa_Latn", "Spanish", "es", "Romance", ""),
    ("por_Latn", "Portuguese", "pt", "Romance", ""),
    ("ita_Latn", "Italian", "it", "Romance", ""),
    ("nld_Latn", "Dutch", "nl", "Germanic", ""),
    ("swe_Latn", "Swedish", "sv", "Germanic", ""),
    ("pol_Latn", "Polish", "pl", "Slavic", ""),
    ("ces_Latn", "Czech", "cs", "Slavic", ""),
    ("ron_Latn", "Romanian", "ro", "Romance", ""),
    ("hun_Latn", "Hungarian", "hu", "Uralic", ""),
    ("fin_Latn", "Finnish", "fi", "Uralic", ""),
    ("tur_Latn", "Turkish", "tr", "Turkic", ""),
    ("vie_Latn", "Vietnamese", "vi", "Austroasiatic", ""),
    ("ind_Latn", "Indonesian", "id", "Austronesian", ""),
    ("tgl_Latn", "Tagalog", "tl", "Austronesian", ""),
    ("swh_Latn", "Swahili", "sw", "Atlantic-Congo", ""),
    ("hau_Latn", "Hausa", "ha", "Afro-Asiatic", ""),
    ("yor_Latn", "Yoruba", "yo", "Atlantic-Congo", ""),
    ("rus_Cyrl", "Russian", "ru", "Slavic", ""),
    ("ukr_Cyrl", "Ukrainian", "uk", "Slavic", ""),
    ("bul_Cyrl", "Bulgarian", "bg", "Slavic", ""),
    ("kaz_Cyrl", "Kazakh", "kk", "Turkic", ""),
    ("ell_Grek", "Greek", "el", "Hellenic", ""),
    ("hye_Armn", "Armenian", "hy", "Armenian", ""),
    ("kat_Geor", "Georgian", "ka", "Kartvelian", ""),
    ("heb_Hebr", "Hebrew", "he", "Afro-Asiatic", ""),
    ("arb_Arab", "Arabic", "ar", "Afro-Asiatic", "Standard Arabic"),
    ("pes_Arab", "Persian", "fa", "Iranian", "Western Persian"),
    ("urd_Arab", "Urdu", "ur", "Indo-Aryan", ""),
    ("uig_Arab", "Uyghur", "ug", "Turkic", ""),
    ("hin_Deva", "Hindi", "hi", "Indo-Aryan", ""),
    ("mar_Deva", "Marathi", "mr", "Indo-Aryan", ""),
    ("ben_Beng", "Bengali", "bn", "Indo-Aryan", ""),
    ("pan_Guru", "Punjabi", "pa", "Indo-Aryan", "Eastern Panjabi"),
    ("guj_Gujr", "Gujarati", "gu", "Indo-Aryan", ""),
    ("ory_Orya", "Odia", "or", "Indo-Aryan", ""),
    ("tam_Taml", "Tamil", "ta", "Dravidian", ""),
    ("tel_Telu", "Telugu", "te", "Dravidian", ""),
    ("kan_Knda", "Kannada", "kn", "Dravidian", ""),
    ("mal_Mlym", "Malayalam", "ml", "Dravidian", ""),
    ("sin_Sinh", "Sinhala", "si", "Indo-Aryan", ""),
    ("tha_Thai", "Thai", "th", "Tai-Kadai", ""),
    ("lao_Laoo", "Lao", "lo", "Tai-Kadai", ""),
    ("mya_Mymr", "Burmese", "my", "Sino-Tibetan", ""),
    ("khm_Khmr", "Khmer", "km", "Austroasiatic", ""),
    ("bod_Tibt", "Tibetan", "bo", "Sino-Tibetan", "Standard Tibetan"),
    ("amh_Ethi", "Amharic", "am", "Afro-Asiatic", ""),
    ("zho_Hans", "Chinese", "zh", "Sino-Tibetan", "Chinese (Simplified)"),
    ("jpn_Jpan", "Japanese", "ja", "Japonic", ""),
    ("kor_Hang", "Korean", "ko", "Koreanic", ""),
)
CODES = tuple(row[0] for row in LANGUAGES)


def language_rows() -> list[dict[str, object]]:
    """Rows of languages.csv."""
    rows = []
    for code, name, short, family, _ in LANGUAGES:
        script = code.split("_")[1]
        rows.append({"language": code, "name": name, "iso639_1": short, "script": script, "script_name": SCRIPTS[script],
                     "family": family, "spaced": "" if code in UNSPACED else "1",
                     "direction": "rtl" if script in RIGHT_TO_LEFT else "ltr",
                     "aliases": ALIASES.get(code, "")})
    return rows


def petrov_names() -> dict[str, str]:
    """FLORES code -> the language's name in Petrov et al.'s table."""
    return {code: petrov or name for code, name, _, _, petrov in LANGUAGES}

"""Names of fonts that people know from other systems, by the font that stands in for them here. Data only."""

from __future__ import annotations

# The fonts that matplotlib brings.
LATIN: dict[str, tuple[str, ...]] = {
    "DejaVu Sans": (
        "Arial", "Avenir", "Bitstream Vera Sans", "Calibri", "Candara", "Century Gothic", "Corbel",
        "Franklin Gothic", "Futura", "Geneva", "Gill Sans", "Helvetica", "Helvetica Neue", "Inter", "Lato",
        "Liberation Sans", "Lucida Grande", "Lucida Sans Unicode", "Montserrat", "Noto Sans", "Open Sans",
        "Optima", "Poppins", "Roboto", "Segoe UI", "Source Sans Pro", "Tahoma", "Trebuchet MS", "Ubuntu",
        "Verdana",
    ),
    "DejaVu Serif": (
        "Bitstream Vera Serif", "Book Antiqua", "Bookman", "Cambria", "Charter", "Garamond", "Georgia",
        "Liberation Serif", "Noto Serif", "Palatino", "Palatino Linotype", "Times", "Times New Roman",
    ),
    "DejaVu Sans Mono": (
        "Andale Mono", "Bitstream Vera Sans Mono", "Cascadia Code", "Consolas", "Courier", "Courier New",
        "Fira Code", "JetBrains Mono", "Liberation Mono", "Lucida Console", "Menlo", "Monaco", "SF Mono",
        "Source Code Pro", "Ubuntu Mono",
    ),
}  # fmt: skip

# The template's own fonts, if it has some.
EAST_ASIAN: tuple[str, ...] = (
    "AR PL UMing CN", "Apple SD Gothic Neo", "AppleGothic", "Arial Unicode MS", "Batang", "DFKai-SB",
    "DengXian", "Dotum", "Droid Sans Fallback", "FangSong", "Gulim", "Heiti SC", "Heiti TC",
    "Hiragino Kaku Gothic Pro", "Hiragino Maru Gothic Pro", "Hiragino Sans", "Hiragino Sans GB",
    "IPAGothic", "IPAexGothic", "KaiTi", "MS Gothic", "MS Mincho", "MS PGothic", "Malgun Gothic", "Meiryo",
    "Microsoft JhengHei", "Microsoft YaHei", "MingLiU", "NSimSun", "NanumBarunGothic", "NanumGothic",
    "Noto Sans CJK HK", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans CJK SC", "Noto Sans CJK TC",
    "Noto Sans JP", "Noto Sans KR", "Noto Sans SC", "Noto Sans TC", "Noto Serif CJK JP",
    "Noto Serif CJK SC", "Osaka", "PMingLiU", "PingFang HK", "PingFang SC", "PingFang TC", "STFangsong",
    "STHeiti", "STKaiti", "STSong", "STXihei", "SimHei", "SimSun", "Songti SC", "Source Han Sans CN",
    "Source Han Sans JP", "Source Han Sans KR", "Source Han Sans SC", "Source Han Sans TC", "TakaoGothic",
    "TakaoPGothic", "VL Gothic", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Yu Gothic", "Yu Mincho",
    "YuGothic", "YuMincho",
)  # fmt: skip

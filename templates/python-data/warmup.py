"""Warms up pandas, numpy and matplotlib, so that their first use in a sandbox is fast.

Runs in its own namespace in the zygote, before it forks. Code that runs in each fork belongs in `touch` in
`template.toml`.

It must not leave anything behind: open or new files, threads, figures, random state, settings or a pyplot
backend.
"""


def warmup():
    import gc
    import io
    import warnings

    import matplotlib.dates
    import matplotlib.font_manager
    import matplotlib.mathtext
    import numpy as np
    import numpy.random  # lazy in numpy: "import numpy" does not load it
    import pandas as pd
    from matplotlib.figure import Figure

    def tables():
        csv = "day,city,units,price\n" + "".join(
            f"2024-{1 + i % 12:02d}-{1 + i % 28:02d},{'abc'[i % 3]},{i},{i / 7:.3f}\n" for i in range(60)
        )
        df = pd.read_csv(io.StringIO(csv), parse_dates=["day"])
        df["sum"] = df["units"] * df["price"]
        df["when"] = pd.to_datetime(df["day"].astype(str), format="%Y-%m-%d")
        df["month"] = df["when"].dt.to_period("M").astype(str)
        by_city = df.groupby("city").agg(total=("sum", "sum"), mean=("price", "mean"), n=("units", "count"))
        df.merge(by_city.reset_index(), on="city", how="left").sort_values(["total", "day"])
        df.pivot_table(index="month", columns="city", values="sum", aggfunc="sum").fillna(0)
        df.set_index("when")["sum"].resample("MS").sum().rolling(3).mean()
        df[df["city"].str.upper() == "A"].drop_duplicates("month").nlargest(3, "sum")
        df["city"].value_counts()
        df.isna().sum()
        df.corr(numeric_only=True)
        pd.concat([df, df]).dtypes.to_string()
        df.describe().to_string()
        df.head().to_string()
        df.head().to_html()
        df._repr_html_()
        df.info(buf=io.StringIO())
        df.to_csv(io.StringIO(), index=False)
        df[["city", "units"]].to_json()

    def numbers():
        a = np.random.default_rng(0).normal(size=(16, 16))  # a separate generator leaves the global one unchanged
        np.linalg.solve(a, a[0])
        np.linalg.svd(a)
        np.percentile(a, [5, 50, 95])
        np.polyfit(a[0], a[1], 1)
        repr(a)

    def charts():
        # A Figure without pyplot is not registered and does not select a backend.
        y = np.arange(6.0)
        fig = Figure(figsize=(6, 3))
        dates, bars, pie = fig.subplots(1, 3)
        dates.plot(pd.date_range("2024-01-01", periods=6, freq="MS"), y, marker="o", label="line")
        dates.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%b"))
        dates.tick_params(axis="x", rotation=45)
        dates.set(title="Title, $x^2$", xlabel="x", ylabel="y")
        dates.legend()
        dates.grid(True)
        bars.bar(["a", "b", "c"], [1, 2, 3])
        bars.scatter(y / 3, y / 3, c=y)
        bars.hist(y, bins=5, alpha=0.5)
        pie.pie([1, 2, 3], labels=["a", "b", "c"], autopct="%d%%")
        fig.tight_layout()
        fig.savefig(io.BytesIO(), format="png", dpi=150, bbox_inches="tight")
        fig.clear()

    def close_fonts():
        # matplotlib keeps font files open in two caches. Forks would share their file offsets, so close them.
        matplotlib.font_manager._get_font.cache_clear()
        matplotlib.mathtext.MathTextParser._parse_cached.cache_clear()
        gc.collect()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables()
        numbers()
        charts()
        close_fonts()


warmup()
del warmup

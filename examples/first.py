"""Sales by month and region: clean the data, print a summary, draw one chart, save a table."""

import matplotlib.pyplot as plt
import pandas as pd

raw = pd.read_csv("/data/input/sales.csv", parse_dates=["month"])

# Clean: normalize region names, drop duplicate rows, fill missing values from the same product.
sales = raw.copy()
sales["region"] = sales["region"].str.strip().str.title()
sales = sales.drop_duplicates().sort_values("month")
year = sales["month"].dt.year
gaps = int(sales[["units", "unit_price"]].isna().any(axis=1).sum())
typical_price = sales.groupby(["product", year])["unit_price"].transform("median")
sales["unit_price"] = sales["unit_price"].fillna(typical_price)
by_line = sales.groupby(["region", "product"])["units"]
sales["units"] = by_line.transform(lambda units: units.interpolate(limit_direction="both").round())
sales["revenue"] = sales["units"] * sales["unit_price"]

print(f"{len(raw)} rows read, {len(raw) - len(sales)} duplicates dropped, missing values filled in {gaps} rows")
start, end = sales["month"].min(), sales["month"].max()
print(f"{start:%B %Y} to {end:%B %Y}, revenue {sales['revenue'].sum():,.0f}\n")

by_year = sales.pivot_table(index="region", columns=sales["month"].dt.year, values="revenue", aggfunc="sum")
first, last = by_year.columns[0], by_year.columns[-1]
by_year["change %"] = (by_year[last] / by_year[first] - 1) * 100
print("Revenue by region")
by_year = by_year.sort_values(last, ascending=False).rename_axis(columns=None)
print(by_year.to_string(formatters=["{:,.0f}".format, "{:,.0f}".format, "{:+.1f}".format]), "\n")

monthly = sales.pivot_table(index="month", columns="region", values="revenue", aggfunc="sum")
print("Monthly revenue, last six months")
print(monthly.tail(6).round(0).astype(int).rename(index=lambda day: f"{day:%Y-%m}").to_string(), "\n")

change = monthly.pct_change()
region = change.min().idxmin()
month = change[region].idxmin()
print(f"Sharpest drop: {region} in {month:%B %Y}, {change.loc[month, region]:.0%} month over month")

# Draw: one line per region, labelled at its right end instead of in a legend.
colors = {"North": "#1b6ca8", "South": "#e07a1f", "East": "#b23a48", "West": "#2f8f6b"}
fig, ax = plt.subplots(figsize=(9, 4.8))
height = 0.0
for name in monthly.iloc[-1].sort_values().index:
    values = monthly[name] / 1000
    ax.plot(values.index, values, color=colors[name], linewidth=2.2)
    height = max(values.iloc[-1], height + 1.4)  # keep labels apart
    ax.annotate(name, (values.index[-1], height), xytext=(8, 0), textcoords="offset points",
                color=colors[name], va="center", fontweight="bold")
ax.annotate(f"{region}, {month:%b %Y}", (month, monthly.loc[month, region] / 1000), xytext=(0, -30),
            textcoords="offset points", ha="center", fontsize=9, color="#555555",
            arrowprops={"arrowstyle": "-", "color": "#999999"})
ax.set_title("Monthly revenue by region", loc="left", fontsize=14, fontweight="bold", pad=14)
ax.set_ylabel("thousand")
ax.set_ylim(bottom=0)
ax.grid(axis="y", color="#e3e3e3")
ax.set_axisbelow(True)
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(length=0)
ax.margins(x=0.02)
fig.tight_layout()
plt.show()

summary = sales.groupby(["region", "product"], as_index=False)[["units", "revenue"]].sum()
summary["units"] = summary["units"].astype(int)
summary.round(2).to_csv("/data/output/summary.csv", index=False)

"""How the page looks: on a phone, in the dark, and printed."""

__all__ = ["STYLE"]

STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1b1b1b;--soft:#555;--line:#d5d5d5;--card:#f5f5f3}
@media (prefers-color-scheme:dark){:root{--back:#161719;--text:#e6e6e6;--soft:#a9a9a9;--line:#3a3c40;--card:#212327}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:62rem;background:var(--back);color:var(--text);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0 1rem}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p,ul{max-width:46rem}
figcaption,.soft{color:var(--soft);font-size:.875rem}
.figures{display:grid;gap:1.2rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
figure{margin:0;max-width:36rem}
figure svg,figure img{display:block;width:100%;height:auto;background:#fff;border:1px solid var(--line);
border-radius:6px;margin-bottom:.4rem}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;font-size:.875rem;width:100%}
th,td{padding:.4rem .6rem;text-align:left;vertical-align:top;border-top:1px solid var(--line);overflow-wrap:normal}
thead th{border-top:0;background:var(--card)}
tbody th{font-weight:normal;min-width:11rem}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.k{white-space:nowrap}
.long{min-width:14rem}
ul{padding-left:1.2rem}
details{border:1px solid var(--line);border-radius:6px;margin:.4rem 0;padding:.4rem .7rem}
summary{cursor:pointer}
pre{overflow-x:auto;background:var(--card);padding:.7rem;border-radius:6px;font-size:.8125rem;line-height:1.4;
white-space:pre-wrap}
.box{background:var(--card);padding:.7rem;border-radius:6px}
@media print{:root{color-scheme:light;--back:#fff;--text:#000;--soft:#333;--line:#bbb;--card:#f5f5f3}
body{font-size:10pt;max-width:none;padding:0}.wide{overflow:visible;border:0}table,figcaption,.soft{font-size:8pt}
th,td{padding:.2rem .35rem}tbody th,.long{min-width:0}figure,tr,li,.box{break-inside:avoid}h2,h3{break-after:avoid}
.figures{grid-template-columns:1fr 1fr}@page{margin:15mm}}
"""

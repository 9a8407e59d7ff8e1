#include "pages/report/page_parts.h"

#include "pages/report/style.h"

namespace tessera::report {

Markup page(const std::string& title, const Markup& body) {
  Html html;
  html.add(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
      "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
      title, Markup{kStyle});
  html.add(body);
  html.add("</main>\n</body>\n</html>\n");
  return html.take();
}

Markup remarks(const std::vector<Remark>& all) {
  Html html;
  html.add("<ul class=\"verdict\">\n");
  for (const Remark& remark : all) {
    html.add("<li><span{}>{}</span>", Markup{remark.trouble ? " class=\"trouble\"" : ""}, with_code(remark.text));
    if (!remark.advice.empty()) html.add(" <span class=\"soft\">{}</span>", with_code(remark.advice));
    html.add("</li>\n");
  }
  html.add("</ul>\n");
  return html.take();
}

Markup all_curves(const Curves& curves) {
  Html html;
  if (curves.panels.empty()) return html.take();
  html.add("<h2>Curves</h2>\n<div class=\"curves\">\n");
  for (const monitor::PlotPanel& panel : curves.panels) html.add(figure(panel, curves.x_label));
  html.add("</div>\n");
  return html.take();
}

}  // namespace tessera::report

"""What headless Chromium shows of a real TensorBoard's tabs, as JSON: browse_tensorboard.py DIRECTORY REQUEST.

REQUEST: {TAB: [a text that the tab shows when it is drawn, …], …}; the answer: {TAB: {"text": a line for each piece of it, "pictures": how many
are loaded and have pixels, "drawings": how many are drawn as SVG or canvas, "errors": […]}}."""
import json
import sys

import browse
import serve_tensorboard

# Through the shadow roots of its elements. What one does not see is left out.
WALK = """(() => { const found = {text: [], pictures: 0, drawings: 0};
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) { const text = node.textContent.trim(); if (text) found.text.push(text); return; }
    if (['STYLE', 'SCRIPT', 'TEMPLATE', 'NOSCRIPT'].includes(node.nodeName)) return;
    if (node.nodeType === Node.ELEMENT_NODE) {
      if (getComputedStyle(node).display === 'none') return;
      if (node.nodeName === 'IMG' && node.complete && node.naturalWidth > 0) ++found.pictures;
      if (['svg', 'CANVAS'].includes(node.nodeName) && node.getBoundingClientRect().width > 50) ++found.drawings;
      if (node.shadowRoot) walk(node.shadowRoot);
      if (node.nodeName === 'IFRAME' && node.contentDocument) walk(node.contentDocument.body);
    }
    node.childNodes.forEach(walk);
  };
  walk(document.body);
  found.text = found.text.join('\\n');
  return found; })()"""


DRAWN = {"images": "pictures", "scalars": "drawings", "distributions": "drawings", "histograms": "drawings", "graphs": "drawings"}


def seen(address, tab, texts):
    waits = [{"wait": f"{WALK}.text.includes({json.dumps(text)})"} for text in texts]
    if tab in DRAWN:
        waits.append({"wait": f"{WALK}.{DRAWN[tab]} > 0"})
    return {"url": f"{address}/#{tab}", "width": 1300, "height": 2000, "steps": [*waits, {"run": WALK}]}


def main(directory, request):
    server, address = serve_tensorboard.start(directory)
    try:
        serve_tensorboard.loaded(address)
        answer = browse.visit_all([seen(address, tab, texts) for tab, texts in request.items()])
        return {tab: visit["values"][0] | {"errors": visit["errors"]} for tab, visit in zip(request, answer)}
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))

// Browsers start no web worker for pages that were opened from a folder (file://). The search of this site needs one.
// This class has the part of Worker's interface that the search uses, and runs the script in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class LocalWorker extends EventTarget {
    constructor(url) {
      super();
      url = new URL(url, document.baseURI).href; // the theme gives an address relative to the page
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = frame.contentDocument.createElement("script");
          script.src = new URL(source, url).href;
          script.onload = resolve;
          script.onerror = reject;
          frame.contentDocument.body.append(script);
        });
      this.inside.importScripts = (...sources) => sources.reduce((before, next) => before.then(() => load(next)), Promise.resolve());
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = load(url);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
}

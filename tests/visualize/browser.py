"""A headless browser, controlled through WebDriver."""

import base64
import json
import re
import subprocess
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of a reference to an element


class Browser:
    """Session of Chromium; use it as a context manager.

    Args:
        driver: Path of `chromedriver`.
        size: Tuple of ints, width and height of the window in pixels.
    """

    def __init__(self, driver, size=(1300, 1150)):
        self.process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            port = next(filter(None, (re.search(r"port (\d+)\.", x) for x in self.process.stdout)))
            self.session = f"http://127.0.0.1:{port[1]}/session"
            options = ["--headless=new", "--no-sandbox", f"--window-size={size[0]},{size[1]}"]
            wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": options}}
            wanted["goog:loggingPrefs"] = {"browser": "ALL"}
            opened = self.send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
            self.session += f"/{opened['sessionId']}"
        except BaseException:
            self.process.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.send("DELETE", "")
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def send(self, method, command, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.session + command, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path):
        self.send("POST", "/url", {"url": path.as_uri()})

    def run(self, script, *arguments):
        """What a script returns, for instance `"return document.title"`."""
        return self.send("POST", "/execute/sync", {"script": script, "args": arguments})

    def point_at(self, selector, press=False):
        """Moves the mouse to the first element of a CSS selector, and presses its button."""
        found = self.send("POST", "/element", {"using": "css selector", "value": selector})
        origin = {ELEMENT: found[ELEMENT]}
        steps = [{"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin}]
        if press:
            steps += [{"type": f"pointer{way}", "button": 0} for way in ("Down", "Up")]
        mouse = {"type": "pointer", "id": "mouse", "actions": steps}
        self.send("POST", "/actions", {"actions": [mouse]})

    def type(self, *keys):
        """Presses keys on the element that has the focus; see the specification for their codes."""
        steps = [{"type": f"key{way}", "value": key} for key in keys for way in ("Down", "Up")]
        self.send(
            "POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]}
        )

    def complaints(self):
        """What the page has written to the console."""
        return [entry["message"] for entry in self.send("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.send("GET", "/screenshot")))

# SPDX-License-Identifier: Apache-2.0
"""tests/cli/browser.py: Chromium without a window, by Debian's chromium, chromium-driver and python3-selenium.

Where one of them is missing, `Browser.why_not()` says which. Selenium belongs to Debian's own Python: `use_debians_python` starts the
program anew with it where this one lacks it.
"""

import base64
import importlib.util
import json
import os
import shutil
import sys

DEBIANS_PYTHON = "/usr/bin/python3"


def use_debians_python():
    if importlib.util.find_spec("selenium") or os.environ.get("FOLIO_BROWSER_TEST") or not os.access(DEBIANS_PYTHON, os.X_OK):
        return
    os.environ["FOLIO_BROWSER_TEST"] = "second"
    os.execv(DEBIANS_PYTHON, [DEBIANS_PYTHON, *sys.argv])


class Browser:
    """One page at a time, with the errors and requests that it caused."""

    @staticmethod
    def why_not():
        missing = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
        missing += [] if importlib.util.find_spec("selenium") else ["python3-selenium"]
        return f"not installed: {', '.join(missing)} (tools/install_dependencies.sh ci)" if missing else ""

    def __init__(self):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        # Root has no sandbox, containers have a small /dev/shm, and there is no GPU.
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.driver.set_page_load_timeout(600)
        self.driver.set_script_timeout(600)

    def close(self):
        self.driver.quit()

    def open(self, path, scheme="light", width=1600):
        """Loads the file or address and waits until it has drawn; logs begin anew."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get(path if "://" in path else "file://" + os.path.abspath(path))
        # Two frames later all that was asked for has been drawn.
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Addresses that were asked for, but for those that are in the page itself."""
        sent = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                sent.append(message["params"]["request"]["url"])
        return [address for address in sent if not address.startswith("data:")]

    def picture(self, path):
        """The whole page as a PNG."""
        width, height = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 8000), "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

"""A real Chromium without a window, ended with the test."""

from __future__ import annotations

import os
import shutil

import pytest

__all__ = ["chromium"]


def chromium(folder):
    """Returns a browser; skips where Chromium and its driver are not installed (`.ci/run` installs them)."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs Chromium and its driver; on Debian: apt install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for each in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(each)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # its sandbox refuses root; it opens our own pages only
    downloads = {"download.default_directory": str(folder), "download.prompt_for_download": False}
    options.add_experimental_option("prefs", downloads)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))

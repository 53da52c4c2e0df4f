# SPDX-License-Identifier: GPL-2.0-or-later
"""Installs fakernic_lab. The Debian package uses this file."""

from pathlib import Path

from setuptools import setup

VERSION = Path(__file__).resolve().parents[2] / "VERSION"

setup(name="fakernic-lab", version=VERSION.read_text().strip(),
      description="Run programs in virtual machines that have RDMA",
      license="GPL-2.0-or-later", packages=["fakernic_lab", "fakernic_lab.timeline"],
      package_data={"fakernic_lab": ["arches.txt", "versions.txt"],
                    "fakernic_lab.timeline": ["*.lua"]},
      python_requires=">=3.9", entry_points={
          "console_scripts": ["fakernic-lab = fakernic_lab.cli:main"],
          # By the name that -p gives it: so it is not registered twice.
          "pytest11": [
              "fakernic_lab.pytest_plugin = fakernic_lab.pytest_plugin"]})

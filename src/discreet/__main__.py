"""Lets ``python -m discreet`` be the command line."""

from discreet.cli import main

main()

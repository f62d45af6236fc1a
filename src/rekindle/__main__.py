"""``python -m rekindle`` is the ``rekindle`` command."""

from rekindle.cli.main import main

if __name__ == "__main__":
    main()

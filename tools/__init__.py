"""Programs for people who work on simdb. None of them is part of the installed package."""

"""Campaigns that try to make simdb lose, damage or misreport something; see tools/torture.py."""

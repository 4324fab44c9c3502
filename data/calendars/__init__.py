"""Calendars of China, Japan and Korea: derived tables and how they are made."""

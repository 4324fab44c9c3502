"""Uploads: texts that readers bring, from the files to a build."""

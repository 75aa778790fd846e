"""The Zarr v3 hierarchy of a store: metadata, keys, storage, arrays, commit order."""

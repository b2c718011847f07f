"""`logstore fsck`: do store, registry and chains agree?"""

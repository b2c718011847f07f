import sys,time
from tests.model.search import search
from tests.model.planted import FOUND_BY
for bug,c in FOUND_BY.items():
    if len(sys.argv)>1 and bug.name not in sys.argv[1:]: continue
    t=time.process_time()
    try: r=search(c.with_bug(bug),1500000)
    except Exception as e: print(bug.name,c.name,repr(e)[:100], f"{time.process_time()-t:.1f}s",flush=True); continue
    print(bug.name,c.name,r.states,f"{time.process_time()-t:.1f}s",repr(r.wrong),len(r.trace),flush=True)
    if len(sys.argv)>1: print("\n".join("   "+s for s in r.trace))

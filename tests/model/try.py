import sys,time
from tests.model.search import search
from tests.model.config import Config
def go(**kw):
    c=Config(name='x',**kw); t=time.process_time(); r=search(c); dt=time.process_time()-t
    print(kw, r.states, r.depth, f"{dt:.1f}s {r.states/dt:.0f}/s", repr(r.wrong), len(r.trace), r.all_answered, flush=True)
    if r.wrong: print("\n".join("   "+s for s in r.trace))
    return r
if __name__=='__main__':
    go(**eval("dict("+sys.argv[1]+")"))

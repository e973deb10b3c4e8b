import subprocess, sys, os
def test_p(live_server, world):
    args = os.environ["ST"].split()
    with open("/tmp/w/h/st.txt","w") as f:
        subprocess.run([".venv/bin/schemathesis","run",f"{live_server.url}/openapi.json","-H",f"Authorization: Bearer {world.ours_test.key}","--no-color",*args],stdout=f,stderr=f)
    with open("/tmp/w/h/log.txt","w") as f: f.write("\n".join(live_server.log_lines()))

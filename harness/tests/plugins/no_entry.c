/* A shared object that is no plugin. */
int attest_plugin_misspelt(void);

__attribute__((visibility("default"))) int attest_plugin_misspelt(void)
{
    return 0;
}
